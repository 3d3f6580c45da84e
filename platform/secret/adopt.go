package secret

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Adopt records a certificate that the authority has signed for a node and that a restored database does not know. It reports
// false for a node without any certificate, and for a serial that the database knows. TLS checks when the certificate expires.
func (c *Certificates) Adopt(ctx context.Context, node ids.Node, serial string, now time.Time) (bool, error) {
	tag, err := c.DB.Exec(ctx, adoptCertificate, serial, node, now.Add(pki.MaxTTL))
	if err != nil {
		return false, fmt.Errorf("recording certificate %s of %s: %w", serial, node, err)
	}
	return tag.RowsAffected() > 0, nil
}
