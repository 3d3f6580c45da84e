package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Statements are all statements of the package, for the test of the schema.
var Statements = map[string]string{
	"selectEndpoints": selectEndpoints, "selectEndpoint": selectEndpoint, "selectActive": selectActive, "countEndpoints": countEndpoints, "lockTenant": lockTenant,
	"insertEndpoint": insertEndpoint, "updateEndpoint": updateEndpoint, "deleteEndpoint": deleteEndpoint, "rotateEndpoint": rotateEndpoint, "deleteOf": deleteOf,
	"lockTargets": lockTargets, "shareEndpoint": shareEndpoint, "lockEndpoint": lockEndpoint, "insertDelivery": insertDelivery, "selectDue": selectDue,
	"updateState": updateState, "updateResults": updateResults, "disableEndpoint": disableEndpoint, "skipPending": skipPending, "storeDue": storeDue,
	"existsRetry": existsRetry, "selectRetries": selectRetries, "selectDeliveries": selectDeliveries, "selectDelivery": selectDelivery,
	"resendDelivery": resendDelivery, "countReplayed": countReplayed, "replayDeliveries": replayDeliveries, "selectOldSecrets": selectOldSecrets,
	"resealSecrets": resealSecrets, "countOldSecrets": countOldSecrets, "selectBacklog": selectBacklog,
}

// CheckURL and the others are for tests outside the package.
var (
	CheckURL      = checkURL
	CheckPatterns = checkPatterns
	ByStream      = subjects
	Clean         = clean
	PauseAfter    = pauseAfter
	Pauses        = pauses
)

// Dispatch is the effect of the consumers.
func (s *Service) Dispatch(ctx context.Context, tx pgx.Tx, e event.Event) error {
	_, err := s.dispatch(ctx, tx, e)
	return err
}

// SetTimeout shortens the timeout of requests, so that tests see it end.
func (s *Sender) SetTimeout(d time.Duration) { s.client.Timeout = d }

// Trust accepts the certificates of a test server.
func (s *Sender) Trust(roots *x509.CertPool) {
	s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// Control is the check of the dialler.
func (s *Sender) Control(address string) error { return s.control("tcp", address, nil) }

// SetSlow marks an endpoint as slow.
func (s *Service) SetSlow(id ids.Webhook) { s.slow.Store(id, struct{}{}) }

// SetImpaired limits the workers that wait for failing endpoints.
func (s *Service) SetImpaired(n int) { s.impaired = make(chan struct{}, n) }

// SignWith returns the signature of a message by a secret of a caller.
func SignWith(secret, id string, at time.Time, body []byte) (string, error) {
	k, err := newKey(Symmetric, secret)
	if err != nil {
		return "", err
	}
	return signatures(Symmetric, []key{k}, id, at, body), nil
}
