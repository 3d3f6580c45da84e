import { Button, Checkbox } from "@mantine/core";
import { createContext, useContext, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { releasable } from "../allocation/release";
import { type Chosen, type Outcome, releaseAll } from "./release";

type Selection = { chosen: Chosen[]; choose: (one: Chosen, on: boolean) => void };

// A context keeps the columns of the table the same while the selection changes, so the focus stays.
export const SelectionContext = createContext<Selection>({ chosen: [], choose: () => {} });

export function useSelection(rows: Schemas["Allocation"][]): Selection & { set: (chosen: Chosen[]) => void } {
  const [all, set] = useState<Chosen[]>([]);
  const chosen = all.filter(({ id }) => rows.some((row) => row.id === id && releasable.has(row.status)));
  const choose = ({ id, name }: Chosen, on: boolean) => set((all) => [...all.filter((each) => each.id !== id), ...(on ? [{ id, name }] : [])]);
  return { chosen, choose, set };
}

export function Choose({ allocation }: { allocation: Schemas["Allocation"] }) {
  const t = useTranslations("allocations");
  const { chosen, choose } = useContext(SelectionContext);
  if (!releasable.has(allocation.status)) return null;
  return (
    <Checkbox aria-label={t("select", { name: allocation.name })} checked={chosen.some(({ id }) => id === allocation.id)} onChange={(event) => choose(allocation, event.currentTarget.checked)} />
  );
}

// BulkRelease releases what is selected. What could not be released stays selected, with its error.
export function BulkRelease({ chosen, set }: { chosen: Chosen[]; set: (chosen: Chosen[]) => void }) {
  const t = useTranslations("allocations");
  const common = useTranslations("allocation");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const [failed, setFailed] = useState<Outcome["failed"]>([]);
  const open = useRef(new Map<string, string>());
  const action = useAction((all: Chosen[], key) => releaseAll(all, key, open.current), [keys.allocations, keys.overview, keys.billing]);
  const count = chosen.length;
  const done = ({ released, failed, left }: Outcome) => {
    setOpened(false);
    setFailed(failed);
    set([...failed, ...left]);
    toast(t("bulkDone", { count: released.length, total: count }));
  };
  return (
    <div className="stack">
      {failed.length > 0 && (
        <div className="failure" role="alert">
          <p>
            <strong>{failed.some(({ unknown }) => unknown) ? t("bulkUnknown") : t("bulkFailed")}</strong>
          </p>
          <ul>
            {failed.map(({ id, name, message }) => (
              <li key={id}>{t("bulkError", { name, message })}</li>
            ))}
          </ul>
        </div>
      )}
      {count > 0 && (
        <div className="row" role="group" aria-label={t("selection")}>
          <span>{t("selected", { count })}</span>
          <Button color="red" onClick={() => setOpened(true)}>
            {t("bulk")}
          </Button>
          <Button variant="default" onClick={() => set([])}>
            {t("unselect")}
          </Button>
        </div>
      )}
      <ConfirmByName
        opened={opened}
        title={t("bulkTitle", { count })}
        name={String(count)}
        action={t("bulkAction", { count })}
        pending={action.pending}
        error={action.error}
        onConfirm={() => action.start(chosen, done)}
        onClose={() => setOpened(false)}
      >
        <p>{common("releaseText")}</p>
        <ul>
          {chosen.map(({ id, name }) => (
            <li key={id}>{name}</li>
          ))}
        </ul>
      </ConfirmByName>
    </div>
  );
}
