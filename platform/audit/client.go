package audit

import (
	"net/netip"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// By is the cause of a change.
type By struct {
	Actor string // user:<id>, service-account:<id>, system:<role>, node:<id>
	// CorrelationID is that of the request or job which made the change.
	CorrelationID string
	// Client is zero for actors of the system.
	Client Client
}

// Client describes the program that sent a request. Address is that of the connection or of the client
// of a trusted proxy. UserAgent is the client's own statement.
type Client struct{ Address, UserAgent string }

// maxUserAgent is enough to recognise a program.
const maxUserAgent = 256

// Clean bounds both texts. A client chooses the user agent, so only printable characters stay: a
// terminal or a log that shows the row cannot be controlled by it.
func (c Client) Clean() Client {
	address, err := netip.ParseAddr(c.Address)
	c.Address = ""
	if err == nil {
		c.Address = address.Unmap().WithZone("").String()
	}
	c.UserAgent = strings.Map(printable, bounded(c.UserAgent))
	return c
}

func printable(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

func bounded(text string) string {
	if len(text) <= maxUserAgent {
		return text
	}
	end := maxUserAgent
	for end > maxUserAgent-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// OnServer is the cause of a change by a command that a person runs on a server. The person needs no
// sign-in there, so the row names the command and the server.
func OnServer(actor, command string) By {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return By{Actor: actor, Client: Client{UserAgent: command + " on server " + host}}
}
