import type { ReactNode } from "react";

export type Fact = [label: string, value: ReactNode];

const isPresent = (value: ReactNode) => value !== undefined && value !== null && value !== "";

// Facts are values with their labels. One without a value is left out.
export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl className="facts">
      {facts.map(([label, value]) => isPresent(value) && <Entry key={label} label={label} value={value} />)}
    </dl>
  );
}

function Entry({ label, value }: { label: string; value: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </>
  );
}
