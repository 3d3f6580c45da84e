package client

import (
	"crypto/tls"
	"net/http"
)

// Upgrading returns the HTTP client of websockets. HTTP/2 has no upgrade.
func (c *Client) Upgrading() (*http.Client, error) {
	transport, err := TransportFor(c.Settings.CA)
	if err != nil {
		return nil, err
	}
	transport.ForceAttemptHTTP2, transport.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Environment returns the variables by which a child process uses the same installation and project. Its token comes
// from the profile or from the environment of this process.
func (c *Client) Environment() (all []string) {
	for name, value := range map[string]string{"GPUAAS_URL": c.Settings.URL, "GPUAAS_PROJECT": c.Settings.Project, "GPUAAS_PROFILE": c.Settings.Name} {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}
