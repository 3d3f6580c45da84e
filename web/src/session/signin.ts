import { ApiError } from "../api/error";

// returnPath is where the sign-in comes back to: this screen with its filters. The server accepts paths of its own only.
export const returnPath = () => location.pathname + location.search;

export const signInPath = (stepUp = false) => `/sign-in?return=${encodeURIComponent(returnPath())}${stepUp ? "&step_up=true" : ""}`;

export const goToSignIn = () => location.assign(signInPath());

// needsStepUp is whether a change needs a recent sign-in.
export const needsStepUp = (error: unknown) => error instanceof ApiError && error.code === "step_up_required";

export const needsSignIn = (error: unknown) => needsStepUp(error) || (error instanceof ApiError && error.status === 401);
