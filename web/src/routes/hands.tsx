import { Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, lazy, useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { useShortcuts } from "../components/a11y/shortcuts";
import { shortcuts } from "./shortcuts";

const Palette = lazy(() => import("./palette/palette"));
const Help = lazy(() => import("./help"));

type Tool = (typeof shortcuts.tools)[number]["name"];

const firstField = () => document.querySelector<HTMLElement>("main input:not([type=checkbox], [type=radio]), main select, main textarea")?.focus();

// Hands runs the shortcuts. The palette and the help sheet are loaded with their first use.
export function Hands() {
  const t = useTranslations("shell");
  const navigate = useNavigate();
  const [tool, setTool] = useState<Tool>();
  const close = () => setTool(undefined);
  const actions = useMemo(() => {
    const tools: Record<Tool, () => void> = { palette: () => setTool("palette"), help: () => setTool("help"), filter: firstField };
    return Object.fromEntries([...shortcuts.screens.map(({ keys, path }) => [keys, () => void navigate({ to: path })]), ...shortcuts.tools.map(({ keys, name }) => [keys, tools[name]])]);
  }, [navigate]);
  useShortcuts(actions);
  return (
    <>
      <Button variant="default" size="xs" onClick={() => setTool("palette")}>
        {t("palette")}
      </Button>
      <Button variant="default" size="xs" onClick={() => setTool("help")}>
        {t("help")}
      </Button>
      <Suspense>
        {tool === "palette" && <Palette close={close} />}
        {tool === "help" && <Help close={close} />}
      </Suspense>
    </>
  );
}
