"""PODS for verl's v1 trainers; verl finds `podsrl.verl.plugin` by its entry point."""
