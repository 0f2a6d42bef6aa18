"""van de Ven, Tuytelaars & Tolias (2022): numbers, settings, notes, claims."""
