package middleware

import (
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

// signIns are the writes that are accepted while nothing else may be changed: operators sign in to read.
var signIns = []string{"loginPersonal", "exchangeOidc", "refreshToken", "logout", "endSession", "endAnySession", "mintServiceAccountToken"}

// rejectWrites rejects a change while MayWrite returns a reason.
func (s *Chain) rejectWrites(_ *gin.Context, r *request.Call) error {
	if !r.Op.Write || s.MayWrite == nil || slices.Contains(signIns, r.Op.ID) {
		return nil
	}
	return s.MayWrite()
}
