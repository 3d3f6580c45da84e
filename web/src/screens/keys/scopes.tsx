import { Checkbox } from "@mantine/core";
import type { Schemas } from "../../api/client";

type Scope = Schemas["Scope"];

// The scopes whose operations exist. Only an operator can grant plans:propose.
const scopes: Scope[] = ["allocations:read", "allocations:write", "billing:read", "storage:read", "storage:write"];

// scopesOf keeps what the contract knows of a draft, in the order of the form.
export const scopesOf = (chosen: string[]): Scope[] => scopes.filter((scope) => chosen.includes(scope));

type Props = { legend: string; chosen: string[]; choose: (scopes: string[]) => void };

export function Scopes({ legend, chosen, choose }: Props) {
  const toggle = (scope: Scope, on: boolean) => choose(on ? [...chosen, scope] : chosen.filter((each) => each !== scope));
  return (
    <fieldset className="row">
      <legend>{legend}</legend>
      {scopes.map((scope) => (
        <Checkbox key={scope} label={scope} checked={chosen.includes(scope)} onChange={(event) => toggle(scope, event.currentTarget.checked)} />
      ))}
    </fieldset>
  );
}
