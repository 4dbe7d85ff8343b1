// What the tools do, without the host: unit tests import it.

/** @param {string} text */
export function countWords(text) {
  return text.split(/\s+/).filter((word) => word !== "").length;
}
