import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys, stale } from "../../query/keys";

// Invitations are shown where there are any.
export function Invitations() {
  const query = useQuery({
    queryKey: keys.invitations,
    queryFn: () => unwrap(api.GET("/api/v1/users/me/invitations", { params: { query: { limit: 20 } } })),
    staleTime: stale.catalogue,
  });
  if (query.error !== null) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return query.data?.items.map((each) => <Invitation key={each.id} invitation={each} />);
}

function Invitation({ invitation }: { invitation: Schemas["OwnInvitation"] }) {
  const t = useTranslations("home");
  const toast = useToast();
  const { tenant } = invitation;
  const invalidates = [keys.invitations, keys.me, keys.projects];
  const params = (key: string) => ({ params: { path: { own_invitation_id: invitation.id }, header: { "X-Idempotency-Key": key } } });
  const accept = useAction((_: null, key) => unwrap(api.POST("/api/v1/users/me/invitations/{own_invitation_id}/accept", params(key))), invalidates);
  const decline = useAction((_: null, key) => unwrap(api.POST("/api/v1/users/me/invitations/{own_invitation_id}/decline", params(key))), invalidates);
  const error = accept.error ?? decline.error;
  return (
    <section className="panel">
      <p>{t("invitation", { tenant: tenant.name, role: tenant.role })}</p>
      <div className="row">
        <Button loading={accept.pending} onClick={() => accept.start(null, () => toast(t("accepted", { tenant: tenant.name })))}>
          {t("accept")}
        </Button>
        <Button variant="default" loading={decline.pending} onClick={() => decline.start(null, () => toast(t("declined", { tenant: tenant.name })))}>
          {t("decline")}
        </Button>
      </div>
      {error !== null && <Failure error={error} />}
    </section>
  );
}
