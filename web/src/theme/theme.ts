import { Anchor, type CSSVariablesResolver, type MantineColorsTuple, Modal, createTheme } from "@mantine/core";
import { tokens } from "./tokens";

// Own shades: with the default ones of Mantine, white text on the primary colour is below 4.5 : 1.
const brand: MantineColorsTuple = ["#eaf2fd", "#cfe1f9", "#a3c6f3", "#75aaed", "#4f92e8", "#2f7bd6", "#0b63c5", "#0857ae", "#064a95", "#043a77"];
const red: MantineColorsTuple = ["#fdecec", "#f8d0d0", "#efa3a3", "#e57575", "#dc4f4f", "#cf3434", "#b42424", "#9d1f1f", "#861919", "#6c1313"];

export const theme = createTheme({
  primaryColor: "brand",
  primaryShade: { light: 6, dark: 7 },
  colors: { brand, red },
  autoContrast: true,
  luminanceThreshold: 0.32,
  fontFamily: tokens.type.family,
  fontFamilyMonospace: tokens.type.mono,
  defaultRadius: tokens.radius,
  respectReducedMotion: true,
  components: {
    // A link in a text differs from it by more than its colour.
    Anchor: Anchor.extend({ defaultProps: { underline: "always" } }),
    // The header of a dialog would be a second banner of the page.
    Modal: Modal.extend({ defaultProps: { attributes: { header: { role: "presentation" } }, transitionProps: { duration: 0 } } }),
  },
  headings: { fontFamily: tokens.type.family, fontWeight: "650" },
});

const variables = (colours: Record<string, string>) =>
  Object.fromEntries(Object.entries(colours).map(([name, value]) => [`--mantine-color-${name}`, value]));

export const resolver: CSSVariablesResolver = () => ({
  variables: {},
  light: variables(tokens.colour.light),
  dark: variables(tokens.colour.dark),
});
