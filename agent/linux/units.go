package linux

import (
	"context"
	"fmt"
	"strings"
)

// reload has systemd read its units again. Slices that are in use take their new
// limits at once (measured: a session loses a device with the reload).
func (h *Host) reload(ctx context.Context) error {
	if _, err := h.command(ctx, systemctl, "daemon-reload"); err != nil {
		return fmt.Errorf("reloading units: %w", err)
	}
	return nil
}

// mountUnit is the name that systemd demands for a mount at the path.
func mountUnit(path string) string {
	var name strings.Builder
	for _, c := range strings.TrimPrefix(path, "/") {
		switch c {
		case '/':
			name.WriteByte('-')
		case '-':
			name.WriteString(`\x2d`)
		default:
			name.WriteRune(c) // account names have nothing else that needs it
		}
	}
	return name.String() + ".mount"
}
