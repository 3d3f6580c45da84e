import { NativeSelect } from "@mantine/core";
import { useWords } from "./words";

type Props = { label: string; any?: string; values: readonly string[]; value: string; change: (value: string | undefined) => void };

// Filter chooses one of the values of an enum. A value of the address that is none of them stays visible.
export function Filter({ label, any, values, value, change }: Props) {
  const word = useWords();
  const all = value === "" || values.includes(value) ? values : [...values, value];
  return (
    <NativeSelect
      label={label}
      value={value}
      onChange={(event) => change(event.currentTarget.value || undefined)}
      data={[...(any === undefined ? [] : [{ value: "", label: any }]), ...all.map((each) => ({ value: each, label: word(each) }))]}
    />
  );
}
