import { type MantineColorScheme, NativeSelect, useMantineColorScheme } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Preference, preference, preferences, setPreference } from "../theme/preferences";

const schemes = ["auto", "light", "dark"] as const;

// Display has the preferences of this browser.
export function Display() {
  const t = useTranslations("shell");
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <fieldset className="row">
      <legend>{t("settings")}</legend>
      <NativeSelect
        size="xs"
        label={t("theme")}
        value={colorScheme}
        onChange={(event) => setColorScheme(event.currentTarget.value as MantineColorScheme)}
        data={schemes.map((value) => ({ value, label: t(value) }))}
      />
      <Choice name="contrast" label={t("contrast")} text={(value) => t(value as "normal" | "high")} />
      <Choice name="shortcuts" label={t("shortcuts")} text={(value) => t(value as "on" | "off")} />
      <Choice name="density" label={t("density")} text={(value) => t(value as "comfortable" | "compact")} />
    </fieldset>
  );
}

function Choice({ name, label, text }: { name: Preference; label: string; text: (value: string) => string }) {
  const [value, setValue] = useState(preference(name));
  const change = (next: string) => {
    setPreference(name, next);
    setValue(next);
  };
  return (
    <NativeSelect size="xs" label={label} value={value} onChange={(event) => change(event.currentTarget.value)} data={preferences[name].map((each) => ({ value: each, label: text(each) }))} />
  );
}
