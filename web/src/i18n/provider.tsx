import type { ReactNode } from "react";
import { IntlProvider } from "use-intl";
import en from "./en";

declare module "use-intl" {
  interface AppConfig {
    Messages: typeof en;
  }
}

// A text that a newer server names and the catalogue lacks shows its name instead of failing.
export function Texts({ children, locale = "en", messages = en }: { children: ReactNode; locale?: string; messages?: typeof en }) {
  return (
    <IntlProvider locale={locale} messages={messages} timeZone={Intl.DateTimeFormat().resolvedOptions().timeZone} onError={() => {}} getMessageFallback={({ key }) => key.split(".").at(-1) ?? key}>
      {children}
    </IntlProvider>
  );
}
