package forge

import (
	"fmt"
	"net/url"
)

// gitea speaks as GitHub did when Gitea began: docs.gitea.com/api, operations
// repoListPullRequests, repoCreateStatus, issueGetComments, issueEditComment.
type gitea struct{ github }

func newGitea(project string) dialect { return gitea{github{"/repos/" + project}} }

// Fifty is the most that an instance gives unless it was set otherwise.
func (g gitea) pulls(_ string, page int) string {
	return fmt.Sprintf("%s/pulls?state=open&sort=recentupdate&limit=50&page=%d", g.repo, page)
}

func (g gitea) status(commit string, s Status) (string, any) {
	return g.repo + "/statuses/" + url.PathEscape(commit), ofGitHub{s.State, line(s.Text, giteaText), s.Context, s.URL}
}

// Gitea has no limit of its own; longer lines push the others away.
const giteaText = 255
