package hostos

import (
	"context"
	"fmt"
	"strings"
)

// Reload makes systemd read its units again. Slices that are in use get their new
// limits at once (measured: a session loses a device with the reload).
func (o *OS) Reload(ctx context.Context) error {
	if _, err := o.Command(ctx, Systemctl, "daemon-reload"); err != nil {
		return fmt.Errorf("reloading units: %w", err)
	}
	return nil
}

// MountUnit is the name that systemd demands for a mount at the path.
func MountUnit(path string) string {
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
