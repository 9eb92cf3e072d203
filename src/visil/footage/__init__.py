"""Whether one file shows everything that another shows, and which of two shows it in more detail.

Features say that two videos are alike. To let a file go for another takes more: the decoded pictures of both, laid
beside each other moment by moment. What cannot be shown that way is not claimed.
"""
