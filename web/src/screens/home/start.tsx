import { Link, type LinkProps } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { useSession } from "../../session/session";

type Model = Schemas["ComputeOverview"];
type Step = { name: "project" | "key" | "money" | "launch"; to: LinkProps["to"]; done: boolean; offered: boolean };

// Start shows the next steps of a user without an active allocation. A section that could not be read has no step.
export function Start({ model: { allocations, balance, projects, ssh_keys } }: { model: Model }) {
  const t = useTranslations("home.start");
  const { may } = useSession();
  const none = projects.data?.items.length === 0;
  const steps: Step[] = [
    { name: "project", to: "/projects", done: !none, offered: projects.data !== undefined && may("createProject") },
    { name: "key", to: "/keys", done: (ssh_keys.data?.items.length ?? 0) > 0, offered: ssh_keys.data !== undefined },
    { name: "money", to: "/billing", done: (balance.data?.amount_minor ?? 0) > 0, offered: balance.data !== undefined && may("createCheckoutSession") },
    { name: "launch", to: "/launch", done: false, offered: may("createAllocation") },
  ];
  const offered = steps.filter((step) => step.offered);
  const next = offered.find(({ done }) => !done);
  if (next === undefined || (!none && allocations.data?.items.length !== 0)) return null;
  return (
    <section className="panel">
      <h2>{t("title")}</h2>
      <ol>
        {offered.map(({ name, to, done }) => (
          <li key={name} aria-current={name === next.name ? "step" : undefined}>
            {done ? t(`done.${name}`) : <Link to={to}>{t(`open.${name}`)}</Link>}
          </li>
        ))}
      </ol>
    </section>
  );
}
