import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { LiveRegion } from "./components/a11y/live";
import { Toasts } from "./components/system/toasts";
import { Texts } from "./i18n/provider";
import { newQueryClient } from "./query/client";
import { newRouter } from "./routes/router";
import { resolver, theme } from "./theme/theme";

const client = newQueryClient();
const router = newRouter();

export function App({ nonce }: { nonce: string }) {
  return (
    <MantineProvider theme={theme} cssVariablesResolver={resolver} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <Texts>
        <QueryClientProvider client={client}>
          <LiveRegion>
            <Toasts>
              <RouterProvider router={router} />
            </Toasts>
          </LiveRegion>
        </QueryClientProvider>
      </Texts>
    </MantineProvider>
  );
}
