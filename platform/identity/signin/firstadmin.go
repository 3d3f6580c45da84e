package signin

// FirstAdminPath is the page of the first administrator; the code follows a #.
const FirstAdminPath = "/first-admin"
