import { setNonce } from "get-nonce";

// styleNonce is the nonce of this page, which styles of components carry. The scroll lock of dialogs reads it from
// get-nonce.
export function styleNonce(): string {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
  setNonce(nonce);
  return nonce;
}
