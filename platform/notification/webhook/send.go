package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaas/internal/netguard"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/internal/version"
)

const (
	// sendTimeout limits one request, from the name to the end of the response.
	sendTimeout = 15 * time.Second
	dialTimeout = 5 * time.Second
	// maxResponse limits what is read of a response, and stored.
	maxResponse = 16 << 10
	maxHeader   = 64 << 10
	// perEndpoint limits the requests to an endpoint at the same time.
	perEndpoint = 8
	idleTimeout = 30 * time.Second
)

// Sender sends requests to addresses that tenants name.
type Sender struct {
	Development bool // the loopback interface is allowed

	client *http.Client
}

// NewSender makes a sender. It uses no proxy of the environment: the check of the address would be that of the proxy.
func NewSender(development bool) *Sender {
	s := &Sender{Development: development}
	s.client = clientOf(s.control)
	return s
}

// newOpenSender makes the sender of a command, which runs on the computer of its user.
func newOpenSender() *Sender { return &Sender{client: clientOf(nil)} }

func clientOf(control func(network, address string, _ syscall.RawConn) error) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: control}
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: perEndpoint, IdleConnTimeout: idleTimeout,
			TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
		},
		// A redirect leads to an address that the tenant has not named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errAddress = errors.New("the address is not public")

// control rejects an address after the name was resolved. It also rejects a name that resolves to another address the
// second time.
func (s *Sender) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading an address: %w", err)
	}
	if netguard.Public(at.Addr()) || s.Development && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return errAddress
}

// message is a request to an endpoint.
type message struct {
	id   string
	body []byte
}

// result is the outcome of a message.
type result struct {
	Attempt

	response string
	after    time.Duration // the receiver wants no request before
	gone     bool          // the receiver wants no request any more
}

// send sends a signed message. A failure is a result.
func (s *Sender) send(ctx context.Context, e Endpoint, keys []key, m message, now func() time.Time) (r result) {
	r.At = now()
	defer func() { r.LatencyMS = now().Sub(r.At).Milliseconds() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(m.body))
	if err != nil {
		r.Error = "the URL is invalid"
		return r
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"gpuaas/" + version.Version},
		"Webhook-Id": {m.id}, "Webhook-Timestamp": {timestamp(r.At)}, "Webhook-Signature": {signatures(e.Signature, keys, m.id, r.At, m.body)},
	}
	response, err := s.client.Do(req)
	if err != nil {
		r.Error, r.after = describe(err), slowAfter(err)
		return r
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	r.Status, r.response = response.StatusCode, clean(text)
	switch {
	case err != nil:
		r.Error, r.after = "the response did not end: "+describe(err), slowAfter(err)
	case r.Status >= 200 && r.Status < 300:
		r.Delivered = true
	default:
		r.Error, r.after, r.gone = fmt.Sprintf("the receiver responded %d", r.Status), retryAfter(response, r.At), r.Status == http.StatusGone
	}
	return r
}

// describe returns the cause of a failure without the URL, whose path may be a secret.
func describe(err error) string {
	var timeout net.Error
	switch cause, ok := errors.AsType[*url.Error](err); {
	case errors.Is(err, errAddress):
		return "its name resolves to an address that is not public"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("the receiver did not respond within %s", sendTimeout)
	case ok:
		err = cause.Err
	}
	return clean([]byte(err.Error()))
}

const (
	// slowed is the pause of an endpoint that is overloaded and names no time.
	slowed    = time.Minute
	maxPaused = 24 * time.Hour
)

// slowAfter slows an endpoint down that does not respond: each request to it occupies a worker for the timeout.
func slowAfter(err error) time.Duration {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return slowed
	}
	return 0
}

// retryAfter returns how long the receiver wants no request.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	text := response.Header.Get("Retry-After")
	var wanted time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wanted = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wanted = at.Sub(now)
	}
	if wanted > 0 {
		return min(wanted, maxPaused)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return slowed
	}
	return 0
}

// credential finds probable secrets in a text that is not JSON.
var credential = regexp.MustCompile(`(?i)(bearer|basic)\s+[a-z0-9._~+/=-]+|(authorization|cookie|secret|token|passw(or)?d|api[_-]?key)["']?\s*[:=]\s*["']?[^\s"'&,;]+|wh(sec|sk)_[a-z0-9+/=]+`)

// clean returns a text that can be stored and displayed: without secrets, without control characters, and in UTF-8.
func clean(text []byte) string {
	if hidden, err := redact.JSON(text); err == nil {
		text = hidden
	}
	shown := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
	shown = credential.ReplaceAllString(shown, redact.Mask)
	if len(shown) > maxResponse {
		shown = strings.ToValidUTF8(shown[:maxResponse], "")
	}
	return shown
}
