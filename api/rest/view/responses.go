package view

import "net/http"

// The methods that the generated server calls to write a response.

// VisitGetComputeOverviewResponse writes the read model.
func (d whole) VisitGetComputeOverviewResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetComputeOffersResponse writes the read model.
func (d whole) VisitGetComputeOffersResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetComputeLaunchResponse writes the read model.
func (d whole) VisitGetComputeLaunchResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetComputeAllocationsResponse writes the read model.
func (d whole) VisitGetComputeAllocationsResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetComputeAllocationResponse writes the read model.
func (d whole) VisitGetComputeAllocationResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetAccessMeResponse writes the read model.
func (d whole) VisitGetAccessMeResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetAccessProjectResponse writes the read model.
func (d whole) VisitGetAccessProjectResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetAccessSessionsResponse writes the read model.
func (d whole) VisitGetAccessSessionsResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformStatusResponse writes the read model.
func (d whole) VisitGetPlatformStatusResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformFleetResponse writes the read model.
func (d whole) VisitGetPlatformFleetResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformNodeResponse writes the read model.
func (d whole) VisitGetPlatformNodeResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformDriftResponse writes the read model.
func (d whole) VisitGetPlatformDriftResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformChangesResponse writes the read model.
func (d whole) VisitGetPlatformChangesResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformChangeResponse writes the read model.
func (d whole) VisitGetPlatformChangeResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetPlatformOpsResponse writes the read model.
func (d whole) VisitGetPlatformOpsResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetBillingOverviewResponse writes the read model.
func (d whole) VisitGetBillingOverviewResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetBillingUsageResponse writes the read model.
func (d whole) VisitGetBillingUsageResponse(w http.ResponseWriter) error { return d.write(w) }
