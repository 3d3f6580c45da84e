import { Link, useNavigate } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { Button } from "@mantine/core";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Failure } from "../components/system/failure";
import { Content, Section } from "../components/system/section";
import { Restricted } from "../components/system/states";
import { useToast } from "../components/system/toasts";
import { useAction } from "../query/action";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { useDraft } from "../session/draft";
import { useSession } from "../session/session";
import { Offers } from "./launch/offers";
import { Options } from "./launch/options";
import { Preview } from "./launch/preview";
import { projectOf } from "./launch/project";
import { type Draft, callOf, commandOf, cueOf, emptyDraft, isComplete, requestOf } from "./launch/request";

type Launched = { draft: Draft; project: string };

export function Launch() {
  const t = useTranslations("launch");
  const session = useSession();
  return (
    <div className="stack">
      <Heading title={t("title")} />
      {session.may("createAllocation") ? <Form /> : <Restricted message={t("noRights")} />}
    </div>
  );
}

function Form() {
  const t = useTranslations("launch");
  const toast = useToast();
  const navigate = useNavigate();
  const session = useSession();
  const [draft, change, done] = useDraft("launch", emptyDraft);
  const query = useQuery({ queryKey: keys.launch, queryFn: () => unwrap(api.GET("/api/v3/compute/launch")), staleTime: stale.live });
  const projects = session.projectsWith("createAllocation");
  const project = projectOf(projects, draft.project, session.me.project?.id);
  const create = useAction(
    (input: Launched, key) =>
      unwrap(api.POST("/api/v1/allocations", { params: { header: { "X-Project-ID": input.project, "X-Idempotency-Key": key } }, body: requestOf(input.draft) })),
    [keys.allocations, keys.overview, keys.billing, keys.skus],
  );
  const launch = () =>
    create.start({ draft, project }, ({ id, name }, shown) => {
      done();
      toast(t("created", { name }));
      if (shown) void navigate({ to: "/allocations/$id", params: { id } });
    });
  const complete = isComplete(draft);
  const chosen = projects.find(({ id }) => id === project)?.name ?? "";
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        launch();
      }}
    >
      <Content query={query}>
        {({ skus, capacity, ssh_keys }) => (
          <>
            {ssh_keys.data?.items.length === 0 && (
              <p role="status">
                {t("noKeys")} <Link to="/keys">{t("addKey")}</Link>
              </p>
            )}
            <Section title={t("offers")} query={partOf(skus, query.refetch)} isEmpty={({ items }) => items.length === 0} empty={<p>{t("none")}</p>}>
              {({ items }) => <Offers skus={items} capacity={capacity.data?.items} chosen={draft.sku} choose={(sku) => change({ sku, region: "" })} />}
            </Section>
          </>
        )}
      </Content>
      <Options draft={draft} change={change} projects={projects} project={project} sku={query.data?.skus.data?.items.find(({ name }) => name === draft.sku)} />
      <section className="panel stack">
        <h2>{t("review")}</h2>
        {complete ? <Preview draft={draft} project={project} /> : <p>{t(draft.sku === "" ? "incomplete" : "incorrect")}</p>}
        {create.error !== null && <Failure error={create.error} retry={launch} />}
        <Button type="submit" disabled={!complete} loading={create.pending}>
          {t("create")}
        </Button>
      </section>
      {complete && (
        <section className="panel stack">
          <h2>{t("command")}</h2>
          <Command text={commandOf(draft, chosen)} label={t("copyCommand")} />
          <h3>{t("request")}</h3>
          <Command text={callOf(draft, project)} label={t("copyRequest")} />
          <h3>{t("cue")}</h3>
          <p>{t("cueNote")}</p>
          <Command text={cueOf(draft)} label={t("copyCue")} />
        </section>
      )}
    </form>
  );
}
