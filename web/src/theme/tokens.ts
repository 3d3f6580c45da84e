// tokens are the decisions of the design. Each pair of text and ground has a contrast of at least 4.5 : 1.
export const tokens = {
  radius: "sm",
  type: { family: "system-ui, sans-serif", mono: "ui-monospace, monospace" },
  colour: {
    light: { body: "#ffffff", text: "#1c2430", dimmed: "#53606f", placeholder: "#5b6675", anchor: "#0857ae", error: "#a01c1c", "default-border": "#c9d0da" },
    dark: { body: "#14181e", text: "#e6eaf0", dimmed: "#a9b3c0", placeholder: "#a3adba", anchor: "#8ebcff", error: "#ff9d9d", "default-border": "#3b4552" },
  },
} as const;
