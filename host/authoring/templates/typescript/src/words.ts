// What the tools do, without the host: unit tests import it.

export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}
