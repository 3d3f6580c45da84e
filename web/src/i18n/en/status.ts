export const status = {
  requested: "Requested",
  provisioning: "Provisioning",
  active: "Active",
  releasing: "Releasing",
  released: "Released",
  failed: "Failed",
  release_failed: "Release failed",
};
