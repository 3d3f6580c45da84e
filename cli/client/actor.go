package client

import "os/user"

// Actor names the user of the local machine in the audit log.
func Actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "local:" + u.Username
	}
	return "local:unknown"
}
