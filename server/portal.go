package server

import "github.com/gpuaas/gpuaas/internal/errs"

// WithoutPortalFromEnv reads GPUAAS_PORTAL: the API alone is served if it is off.
func WithoutPortalFromEnv(getenv func(string) string) (bool, error) {
	switch value := getenv("GPUAAS_PORTAL"); value {
	case "", "on":
		return false, nil
	case "off":
		return true, nil
	default:
		return false, errs.Invalid("GPUAAS_PORTAL", "is %q, and must be on or off", value)
	}
}
