import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useFormat } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

// Bounds of a TTL in seconds, as the contract has them.
const least = 60;
const most = 31_536_000;

type Change = { seconds: number; tag: string };

// The ETag of an allocation is its version, which a read model also has.
export const tagOf = (version: number) => `"${version}"`;

// Expiry changes the TTL of the copy on the screen. A change since then gives 412. The change can be undone while the
// previous expiry is at least the shortest TTL ahead.
export function Expiry({ allocation: { id, version, expires_at: previous } }: { allocation: Schemas["Allocation"] }) {
  const t = useTranslations("allocation");
  const format = useFormat();
  const toast = useToast();
  const [hours, setHours] = useState("");
  const action = useAction(
    ({ seconds, tag }: Change, key) =>
      unwrap(api.PATCH("/api/v1/allocations/{id}", { params: { path: { id }, header: { "If-Match": tag, "X-Idempotency-Key": key } }, body: { ttl_seconds: seconds } })),
    [keys.allocations],
  );
  const undoOf = (changed: Schemas["Allocation"]) => {
    const left = () => Math.round((Date.parse(previous ?? "") - serverNow()) / 1_000);
    if (!(left() >= least)) return undefined;
    return () => (left() >= least ? action.start({ seconds: left(), tag: tagOf(changed.version) }) : toast(t("undoLate")));
  };
  const seconds = Math.round(Number(hours.replace(",", ".")) * 3_600);
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        action.start({ seconds, tag: tagOf(version) }, (changed) => {
          setHours("");
          toast(t("ttlChanged", { when: format.dateTime(changed.expires_at ?? "") }), undoOf(changed));
        });
      }}
    >
      <h2>{t("ttl")}</h2>
      <div className="row">
        <TextInput label={t("ttlLabel")} value={hours} inputMode="decimal" onChange={(event) => setHours(event.currentTarget.value)} />
        <Button type="submit" variant="default" disabled={!(seconds >= least && seconds <= most)} loading={action.pending}>
          {t("ttlAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
