package secretref

import (
	"fmt"
	"os"
	"strings"
)

// FromEnv returns the value of the variable name, or the content of the file that the variable
// NAME_FILE names. It returns "" if neither is set.
func FromEnv(getenv func(string) string, name string) (string, error) {
	path := getenv(name + "_FILE")
	if value := getenv(name); value != "" || path == "" {
		return value, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %s_FILE: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}
