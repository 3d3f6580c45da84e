import { TextInput } from "@mantine/core";

const two = (value: number) => String(value).padStart(2, "0");

// localOf is a time as a field of a form has it: in the zone of the browser, to the minute.
export function localOf(milliseconds: number): string {
  const at = new Date(milliseconds);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

// isoOf is the time that a field has, or undefined.
export const isoOf = (local: string): string | undefined => (Number.isNaN(Date.parse(local)) ? undefined : new Date(local).toISOString());

type Props = { label: string; note: string; value: string; change: (value: string) => void; error?: string };

export function When({ label, note, value, change, error }: Props) {
  return <TextInput type="datetime-local" label={label} description={note} value={value} error={error} onChange={(event) => change(event.currentTarget.value)} />;
}
