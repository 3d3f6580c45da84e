import { Button } from "@mantine/core";
import { api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

type Props = { text: string; label?: string; done: string; ids?: string[] };

// MarkRead marks notifications as read: those with these ids, or all.
export function MarkRead({ text, label, done, ids }: Props) {
  const toast = useToast();
  const action = useAction(
    (these: string[] | undefined, key) => unwrap(api.POST("/api/v1/notifications/read", { params: { header: { "X-Idempotency-Key": key } }, body: { notification_ids: these } })),
    [keys.notifications],
  );
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={label} loading={action.pending} onClick={() => action.start(ids, () => toast(done))}>
        {text}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}
