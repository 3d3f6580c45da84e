package pki

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// Name is the URI name of a certificate's holder: spiffe://<domain>/<kind>/<id>.
type Name struct{ Domain, Kind, ID string }

// URI formats the name.
func (n Name) URI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: n.Domain, Path: "/" + n.Kind + "/" + n.ID}
}

// ParseName reads what URI wrote, and nothing else: no port, user, query,
// fragment, escape or further path element.
func ParseName(u *url.URL) (Name, error) {
	parts := strings.Split(u.Path, "/")
	if len(parts) != 3 || parts[0] != "" || parts[1] == "" || parts[2] == "" {
		return Name{}, fmt.Errorf("%q is not spiffe://<domain>/<kind>/<id>", u)
	}
	n := Name{Domain: u.Host, Kind: parts[1], ID: parts[2]}
	if n.Domain == "" || strings.Contains(n.Domain, ":") || n.URI().String() != u.String() {
		return Name{}, fmt.Errorf("%q is not spiffe://<domain>/<kind>/<id>", u)
	}
	return n, nil
}

// NameOf returns the only URI name of a certificate that TLS has verified. A
// certificate with two has no identity: a reader could pick the other one.
func NameOf(c *x509.Certificate) (Name, error) {
	if len(c.URIs) != 1 {
		return Name{}, fmt.Errorf("certificate %x has %d URI names, not one", c.SerialNumber, len(c.URIs))
	}
	return ParseName(c.URIs[0])
}

// SerialOf is the text form in which serials are recorded and compared.
func SerialOf(c *x509.Certificate) string { return fmt.Sprintf("%032x", c.SerialNumber) }
