export const linesOf = (text: string) => text.trimEnd().split(/\r\n|\r|\n/).length;
