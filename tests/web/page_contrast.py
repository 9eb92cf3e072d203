"""Text that is hard to read: its contrast with what is behind it is less than WCAG's AA asks for."""

FAINT = """(() => {
  const numbers = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const level = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * level(r) + 0.7152 * level(g) + 0.0722 * level(b);
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const own = numbers(getComputedStyle(element).backgroundColor);
    return (own[3] ?? 1) === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const text = walk.currentNode.data.trim().slice(0, 40);
    if (!text || !element.checkVisibility() || element.closest(":disabled, .unseen, .stage, svg")) continue;
    const style = getComputedStyle(element);
    const under = behind(element);
    const [one, other] = [light(over(numbers(style.color), under)), light(under)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${text}`);
  }
  return [...found];
})()"""
