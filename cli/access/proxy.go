package access

import (
	"os"
	"strings"
)

// proxyCommand is the command with which ssh reaches an allocation. ssh runs it in a shell and replaces %-sequences.
func proxyCommand(allocation string) string {
	return strings.ReplaceAll(quote(self()), "%", "%%") + " ssh --stdio " + allocation
}

// self returns the path of this program, which may not be in PATH.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "gpuaas"
	}
	return path
}

// file returns a path as the configuration of ssh reads it.
func file(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(path) + `"`
}

// quote returns an argument as a shell reads it.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func special(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-_./=:,@+%", r):
		return false
	}
	return true
}
