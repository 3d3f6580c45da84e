package signin

// HashForTest is a password's hash with another cost than ours.
func HashForTest(password string, memory, passes uint32) string {
	c := cost{memory: memory, passes: passes, threads: 1}
	salt := []byte("0123456789abcdef")
	return c.text(salt, c.key(password, salt, hashBytes))
}
