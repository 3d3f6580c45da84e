package probe

// ParseListener is tested by itself.
var ParseListener = parseListener
