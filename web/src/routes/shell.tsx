import { Anchor, Button, NativeSelect } from "@mantine/core";
import { useNetwork } from "@mantine/hooks";
import { Link, Outlet } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { useNotice } from "../api/notice";
import { forgetDrafts } from "../session/draft";
import { SessionGate, useSession } from "../session/session";
import { forget } from "../session/storage";
import { LiveState } from "../stream/live-state";
import { useUnread } from "../stream/unread";
import { Display } from "./display";
import { Hands } from "./hands";
import { screens } from "./screens";

const operators = new Set(["admin", "operator"]);

export function Shell() {
  const t = useTranslations("shell");
  const { online } = useNetwork();
  const notice = useNotice();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        {t("skip")}
      </a>
      <SessionGate>
        <Top />
        {notice !== "" && (
          <p className="main" role="status">
            {t("notice", { notice })}
          </p>
        )}
        {!online && (
          <p className="main" role="status">
            {t("offline")}
          </p>
        )}
        <main id="main" className="main" tabIndex={-1}>
          <Outlet />
        </main>
        <Foot />
      </SessionGate>
    </div>
  );
}

function Top() {
  const t = useTranslations("shell");
  const session = useSession();
  return (
    <header className="top">
      <Link to="/" className="brand">
        {t("brand")}
      </Link>
      <Entries label={t("navigation")} platform={false} />
      <div className="tools">
        <LiveState />
        {session.projects.length > 0 && (
          <NativeSelect
            size="xs"
            aria-label={t("project")}
            value={session.project}
            onChange={(event) => session.setProject(event.currentTarget.value)}
            data={[{ value: "", label: t("allProjects") }, ...session.projects.map(({ id, name }) => ({ value: id, label: name }))]}
          />
        )}
        <Hands />
        <form method="post" action="/sign-out" onSubmit={leave}>
          <Button type="submit" variant="default" size="xs">
            {t("signOut")}
          </Button>
        </form>
      </div>
      <Entries label={t("platformNavigation")} platform />
    </header>
  );
}

// leave removes what the next user of this browser must not read.
function leave() {
  forgetDrafts();
  forget("recent.", () => localStorage);
  forget("views.", () => localStorage);
  forget("upload.", () => localStorage);
}

// Entries are one group of the navigation. An empty group is left out.
function Entries({ label, platform }: { label: string; platform: boolean }) {
  const t = useTranslations("shell");
  const { may } = useSession();
  const unread = useUnread() ?? 0;
  const shown = screens.filter((screen) => screen.platform === platform && (screen.action === undefined || may(screen.action)));
  if (shown.length === 0) return null;
  return (
    <nav aria-label={label} className={platform ? "platform" : undefined}>
      {shown.map(({ path, name }) => (
        <Link key={path} to={path} activeOptions={{ exact: path === "/" }}>
          {name === "notifications" && unread > 0 ? t("notificationsUnread", { count: unread }) : t(name)}
        </Link>
      ))}
    </nav>
  );
}

// Foot links the pages that the server renders.
function Foot() {
  const t = useTranslations("shell");
  const { me } = useSession();
  return (
    <footer className="foot stack">
      <Display />
      <nav aria-label={t("more")} className="row">
        <Anchor href="/api/docs">{t("api")}</Anchor>
        <Anchor href="/docs/reference/errors">{t("errors")}</Anchor>
        {operators.has(me.user?.role ?? "") && <Anchor href="/admin/river/">{t("jobs")}</Anchor>}
      </nav>
    </footer>
  );
}
