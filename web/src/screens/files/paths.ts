// below is the path of a name in a folder; "" is the outermost one.
export const below = (folder: string, name: string) => (folder === "" ? name : `${folder}/${name}`);
