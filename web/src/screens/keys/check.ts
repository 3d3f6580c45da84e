// isPrivate is whether a text is a private key, which must not leave the computer of the user.
export const isPrivate = (text: string) => /-----BEGIN|PRIVATE KEY|PuTTY-User-Key-File|Private-Lines/i.test(text);

// isPublic is whether a text has the form of a line of authorized_keys without options. The server checks the key itself.
export const isPublic = (text: string) => /^(ssh-|ecdsa-sha2-|sk-(ssh|ecdsa)-)\S+ [A-Za-z0-9+/]{16,}=*( .*)?$/.test(text.trim());

// secondsOf is the number of seconds of whole days, undefined without an end, and NaN for what the server rejects.
export function secondsOf(days: string): number | undefined {
  if (days.trim() === "") return undefined;
  const count = /^\d{1,3}$/.test(days.trim()) ? Number(days) : 0;
  return count >= 1 && count <= 365 ? count * 86_400 : Number.NaN;
}
