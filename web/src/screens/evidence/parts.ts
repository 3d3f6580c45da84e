type Part = { name: string; count: number };

const isPart = (value: unknown): value is { name: string; records: unknown[] } =>
  typeof value === "object" && value !== null && "name" in value && typeof value.name === "string" && "records" in value && Array.isArray(value.records);

// partsOf are the parts of a file with their numbers of records, or none of a file that is no bundle. It verifies nothing.
export function partsOf(file: string): Part[] {
  try {
    const { payload } = JSON.parse(file) as { payload: string };
    const bytes = Uint8Array.from(atob(payload), (char) => char.charCodeAt(0));
    const { predicate } = JSON.parse(new TextDecoder().decode(bytes)) as { predicate: { parts: unknown[] } };
    return predicate.parts.filter(isPart).map(({ name, records }) => ({ name, count: records.length }));
  } catch {
    return [];
  }
}
