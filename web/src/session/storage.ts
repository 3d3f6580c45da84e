// A browser can block its storage. The portal then works, and forgets at the next load.
export function load(name: string, place: () => Storage = () => localStorage): string {
  try {
    return place().getItem(`gpuaas.${name}`) ?? "";
  } catch {
    return "";
  }
}

// store returns whether the value is stored. A storage can be blocked or full.
export function store(name: string, value: string, place: () => Storage = () => localStorage): boolean {
  try {
    if (value === "") place().removeItem(`gpuaas.${name}`);
    else place().setItem(`gpuaas.${name}`, value);
    return true;
  } catch {
    return false;
  }
}

// forget removes the values whose names have a prefix.
export function forget(prefix: string, place: () => Storage) {
  try {
    const names = Array.from({ length: place().length }, (_, index) => place().key(index) ?? "");
    names.filter((name) => name.startsWith(`gpuaas.${prefix}`)).forEach((name) => place().removeItem(name));
  } catch {
    // Blocked.
  }
}
