{
  description = "GPUaaS: a multi-tenant control plane for GPU capacity";

  # The commit in flake.lock must have Go 1.26 or newer; `nix flake update` changes it.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      revision = self.shortRev or self.dirtyShortRev or "devel";
    in
    {
      packages = each (pkgs: rec {
        default = gpuaas;

        gpuaas = (pkgs.buildGoModule.override { go = pkgs.go_1_26; }) {
          pname = "gpuaas";
          version = revision;
          src = self;

          # Written by `make gen`, which computes it without Nix.
          vendorHash = nixpkgs.lib.fileContents ./nix/vendor.sri;

          subPackages = [ "cmd/gpuaas" "cmd/gpuaas-agent" ];
          tags = [ "nomsgpack" ];
          env.CGO_ENABLED = 0;
          ldflags = [ "-s" "-w" "-X github.com/gpuaas/gpuaas/internal/version.Version=${revision}" ];

          # `make test` runs them: they start PostgreSQL, Git and network listeners.
          doCheck = false;

          # `gpuaas up` starts a private cluster from these binaries.
          nativeBuildInputs = [ pkgs.makeWrapper ];
          postInstall = ''
            wrapProgram $out/bin/gpuaas --set-default GPUAAS_PG_BIN ${pkgs.postgresql_16}/bin
          '';

          meta = {
            license = nixpkgs.lib.licenses.asl20;
            mainProgram = "gpuaas";
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = [ pkgs.go_1_26 pkgs.postgresql_16 pkgs.git pkgs.gnumake ];
          env.GPUAAS_PG_BIN = "${pkgs.postgresql_16}/bin";
        };
      });
    };
}
