package storage

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

const day = 24 * time.Hour

// LimitsFrom returns a function that reads the limits of a project and of its tenant.
func LimitsFrom(client *policies.Client) func(ids.Tenant, ids.Project) Limits {
	return func(tenant ids.Tenant, project ids.Project) Limits {
		latest := client.Latest()
		ofProject := latest.For(identity.TenantScopes(tenant, project)...)
		ofTenant := latest.For(identity.TenantScopes(tenant, ids.Project{})...)
		return Limits{
			ProjectBytes:   ofProject.Int(policies.StorageQuotaBytes),
			TenantBytes:    ofTenant.Int(policies.StorageQuotaBytes),
			ProjectObjects: ofProject.Int(policies.StorageMaxObjects),
			TenantObjects:  ofTenant.Int(policies.StorageMaxObjects),
			ObjectBytes:    ofProject.Int(policies.StorageMaxObjectBytes),
			Trash:          time.Duration(ofProject.Int(policies.StorageTrashDays)) * day,
			UploadLife:     time.Duration(ofProject.Int(policies.StorageUploadHours)) * time.Hour,
			SignedURL:      time.Duration(ofProject.Int(policies.StorageSignedURLSeconds)) * time.Second,
		}
	}
}
