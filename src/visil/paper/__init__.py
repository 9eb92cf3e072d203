"""The paper's tables and figures, and the systems it compares with."""
