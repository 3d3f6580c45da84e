package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
)

const (
	providerWithin = 10 * time.Second
	// A discovery document of Keycloak has 7 KB.
	maxDocument = 512 << 10
)

// examineProvider reads the discovery document of the identity provider, as a sign-in on this computer does, and compares
// the clocks. A token of a provider whose clock is ahead is not valid yet.
func examineProvider(ctx context.Context, a *output.Console, issuer string) []examination {
	e := examination{Name: "identity provider", Status: statusOK, Message: issuer}
	asked := a.Clock.Now()
	date, err := readIssuer(ctx, issuer)
	if err != nil {
		e.Status, e.Message, e.Try = statusFail, err.Error(), "compare GPUAAS_OIDC_ISSUER_URL of the server with the address of the provider; check the network from here"
		return []examination{e}
	}
	return []examination{e, clockExamination("clock of the provider", "identity provider", asked, date)}
}

// readIssuer returns the time of the provider.
func readIssuer(ctx context.Context, issuer string) (date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, providerWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return date, fmt.Errorf("reading the address of the provider: %w", err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return date, fmt.Errorf("the provider is not reachable from here: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return date, fmt.Errorf("%s responds %s", r.URL, resp.Status)
	}
	var document struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(&document); err != nil {
		return date, fmt.Errorf("%s is no discovery document: %w", r.URL, err)
	}
	if document.Issuer != issuer {
		return date, fmt.Errorf("the provider calls itself %q, the server expects %q", document.Issuer, issuer)
	}
	date, _ = http.ParseTime(resp.Header.Get("Date")) // without one, the examination of the clock warns
	return date, nil
}
