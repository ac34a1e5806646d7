"""Shared set-up: a cache folder of this run alone, kernels compiled once, shards of the slow tests, and mpmath's global
precision put back after every test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import mpmath
import pytest

ROOT = Path(__file__).parents[1]


def pytest_addoption(parser):
    parser.addoption(
        "--shard",
        metavar="I/N",
        help="of the slow tests, run only those of shard I of N (0 ≤ I < N); I = auto: chosen by the content of the "
        "package and of the tests, so that one version always runs the same shard and versions take turns",
    )


def content() -> int:
    """A number that is a function of every source file of the package and of the tests."""
    files = sorted(p for folder in ("meanfield", "derivations", "tests") for p in (ROOT / folder).rglob("*.py"))
    value = 0
    for path in files:
        value = zlib.crc32(path.read_bytes().replace(b"\r\n", b"\n"), value)
    return value


def shard_of(test: str, shards: int) -> int:
    """The shard a test belongs to: a function of its name alone."""
    return zlib.crc32(test.encode()) % shards


# tests of seconds whose like stay in the fast suite, or whose subject other tests there see, too
TWINS = """
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[gate]
test_parameter_jets.py::test_control_planted_errors_are_seen[formula
test_total_depth.py::test_laws_follow_the_flow
test_parameter_jets.py::test_control_planted_errors_are_seen[batch norm
test_parameter_jets.py::test_control_planted_errors_are_seen[tokens
test_parameter_jets.py::test_control_planted_errors_are_seen[norms
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[formula]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[batch norm]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[shortcut]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[plain]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[affine]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[pools]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[orthogonal]
test_parameter_jets.py::test_differentials_equal_differences_of_gradients[tokens]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R53 (I.33) point 1 K]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R10 (20), n = 3, d_1
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R30,
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R31,
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R11 (C.5), n = 3 point 0 A]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R50, d_1/c_2 along the line
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R11 (C.5), n = 4 point 0 A]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R12 (C.7) zeta - d_1/c_2]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R11
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R52 (I.26) chi_J*]
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R26, rescaled line:
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C2: |A| < |B| A/B]
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C6: powers of l, Gaussian
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C2: |D| < |F| D/F]
test_variance_variation.py::test_the_print_and_its_contrast_come_out_as_they_should[R38: chi polynomial or bou
test_variance_variation.py::test_the_print_and_its_contrast_come_out_as_they_should[R27, Thm C.5 (1) q]
test_contract.py::test_maps[Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Den
test_contract.py::test_maps[Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation
test_contract.py::test_numbers[Sequential((Residual(Nonlinearity(activation('tanh')), mu=Fraction(1, 2)), Dens
test_contract.py::test_numbers[Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), Dense(),)),
test_contract.py::test_numbers[Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm()
test_empirical_scaleout.py::test_a_checkpoint_belongs_to_its_run[change4]
test_criticality.py::test_phase_diagram_agrees_with_certified_phases[tanh-kw1]
test_criticality.py::test_phase_diagram_agrees_with_certified_phases[tanh-kw0]
test_thresholds.py::test_numbers_decide[z if z > t else (z/2 if z > s else 0) (0.3, -0.4)]
test_oracles.py::test_float_route_agrees_with_its_own_refinement[gelu_tanh]
test_records.py::test_tangents_of_two_inputs[relu-act]
test_empirical_correlators.py::test_class_fractions_of_a_linear_classifier[0.5]
test_fisher.py::test_a_group_left_out_and_a_wrong_exponent_fail[relu-beta1-size1-w of the outer Dense]
test_tails.py::test_control_one_coefficient_of_a_tail_is_off[log(1+z**2)]
test_averages_two_inputs.py::test_certified_two_input_ball[tanh-3/10-20]
test_averages_two_inputs.py::test_certified_two_input_ball[hard_tanh-9/10-18]
test_variance_variation_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[14 log
test_run_error.py::test_one_input_claims[abs(z)**0.8*exp(-abs(z))-dphi2]
test_run_error.py::test_one_input_claims[tanh(30*(z-2))-phi2]
test_cli_critical.py::test_lines_and_points[critical hard_tanh-K^l = 1/(2*log(l)) + smaller order]
test_cli_critical.py::test_lines_and_points[critical erf --mu mu-sigma_w = sqrt(pi)*sqrt(1 - mu**2)/2]
test_averages_two_inputs.py::test_planted_error_is_seen
test_cli_critical.py::test_bistable_cells_are_marked
test_several_inputs.py::test_sources_that_cancel_keep_their_digits
test_gates.py::test_fixed_points_against_a_grid[sigmoid
test_switch_points.py::test_averages_against_quadrature_of_the_text[z if erf(z) > z/3 else z/3]
test_switch_points.py::test_averages_against_quadrature_of_the_text[max(erf(z), 0.3)]
test_switch_points.py::test_averages_against_quadrature_of_the_text[max(erfc(z), 0.5)]
test_switch_points.py::test_averages_against_quadrature_of_the_text[max(atan(z), 0.7) - min(asinh(z), 0.4)]
test_switch_points.py::test_averages_against_quadrature_of_the_text[max(z*exp(-z**2), 0.1)]
test_switch_points.py::test_averages_against_quadrature_of_the_text[min(softplus(z), 1)]
test_tails.py::test_tails_to_any_order_against_quadrature[log(1+z**2)*(1+z**2)**(1/3)]
test_tails.py::test_tails_to_any_order_against_quadrature[1/(sqrt(1+z**2)-abs(z)/2)]
test_tails.py::test_tails_to_any_order_against_quadrature[sqrt(abs(z)+sqrt(1+abs(z)))]
test_tails.py::test_tails_to_any_order_against_quadrature[log(1+z**2)**2/(1+z**2)]
test_tails.py::test_tails_to_any_order_against_quadrature[z**2*asinh(z)**2]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[1e-9*(1e9*z)*(1+erf(1e9*z/sqrt(2)))/2-1.
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[z*asinh(z)-0.5-0.1]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[exp(-z**2) - exp(-2*z**2/10**6)/1000-1-0
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[1e8 + tanh(z)-1-0]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[silu-1.5-0.3]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[tanh(1e8*z)-1-0]
test_empirical_correlators.py::test_vertex_of_linear_networks[gaussian-8-<lambda>-explicit]
test_behind_norms.py::test_against_quadrature[relu-tanh]
test_behind_norms.py::test_against_quadrature[elu-relu]
test_equal_norms.py::test_coordinates_are_the_same_state[{}-names1]
test_equal_norms.py::test_coordinates_are_the_same_state[{}-names3]
test_records.py::test_records_against_networks[Scale inside
test_records.py::test_records_against_networks[two Dense, skip]
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[8 line of
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[4 GELU, t
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[13 log J
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[E-5 where
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[15
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[12 everyw
test_switch_points.py::test_jets_of_a_text[1/(1 + exp(-2*z)) + log(1 + exp(z))]
test_switch_points.py::test_jets_of_a_text[tanh(z)**3/(1 + z**2)]
test_certificates.py::test_fixed_points_at_a_tiny_bias[tanh-1-1e-40-K_star3-1]
test_contract.py::test_numbers[Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)) input_jacobian]
test_contract.py::test_numbers[Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(
test_blocks.py::test_input_jacobian_against_networks[{'norm': 'act', 'mu': 0.5}]
test_thresholds.py::test_numbers_decide[max(tanh(z), t) - max(z, s)/5 (0.3, -0.7)]
test_variance_variation_figures.py::test_figure_b4_shows_the_misprint
test_modules.py::test_interpreted_and_compiled_are_the_same_bits[table]
test_criticality.py::test_laws_at_the_origin_against_iteration[softsign]
test_empirical_correlators.py::test_random_tangents_measure_theta[shortcut]
test_empirical_correlators.py::test_vertex_of_linear_networks[orthogonal-8-<lambda>-explicit]
test_empirical_cuda.py::test_networks_of_the_simulator[simulated_lazy]
test_equal_norms.py::test_gamma_of_relu_beyond_all_doubles[2]
test_criticality.py::test_positive_critical_points_are_certified_to_twenty_digits[polynomial]
test_phase_tables.py::test_rows_cover_and_are_disjoint[gelu]
test_average_node.py::test_kinked_derivative_is_a_difference_quotient[tanh]
test_full_residual.py::test_networks_of_varying_widths
test_pairs_behind_norms.py::test_a_layer_against_quadrature_of_the_texts
test_pair_laws.py::test_distance_never_outgrows_J[erf]
test_records.py::test_tangents_of_two_inputs[tanh-plain]
test_criticality.py::test_half_stable_coefficients_against_differences[silu]
test_criticality_ensembles.py::test_networks_at_the_critical_point[silu]
test_empirical_correlators.py::test_vertex_of_linear_networks[orthogonal-20-<lambda>-explicit]
test_figures.py::test_every_kind_of_line_is_drawn_where_the_contour_is[relu-settings1-entries1]
test_propagate.py::test_two_input_layers_equal_exact_iteration[tanh]
test_criticality.py::test_positive_critical_points_are_certified_to_twenty_digits[silu]
test_criticality.py::test_positive_critical_points_are_certified_to_twenty_digits[hard_swish]
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[21 figure 8, 28
test_blocks.py::test_any_order_of_blocks_against_networks[two dense]
test_blocks.py::test_any_order_of_blocks_against_networks[norm after the skip, fixed gains]
test_blocks.py::test_input_jacobian_against_networks[{'mu': 0.7}]
test_check.py::test_small_checks_pass_and_two_percent_fails[hard_tanh]
test_empirical_differentials.py::test_definitions[silu-True]
test_empirical_differentials.py::test_definitions[sin-False]
test_empirical_correlators.py::test_random_tangents_measure_theta[orthogonal]
test_empirical_functions.py::test_second_and_third_derivatives[erf_scaled]
test_empirical_functions.py::test_second_and_third_derivatives[gelu]
test_figures.py::test_every_kind_of_line_is_drawn_where_the_contour_is[tanh-settings4-entries4]
test_switch_points.py::test_averages_against_quadrature_of_the_text[max(tanh(z)**2, 0.3)]
test_criticality_ensembles.py::test_networks_at_the_critical_point[hard_tanh]
test_correlations.py::test_what_convexity_says
test_figures.py::test_a_line_with_averages_agrees_with_iteration
test_partial_jacobians_figures.py::test_figure_8_draws_28_xi
test_far_signs.py::test_fixed_points_where_the_leading_orders_cancel[softplus(z) - exp(-z**2)]
test_norms.py::test_a_nonlinearity_behind_a_norm_is_followed[z*tanh(z) tanh]
test_contract.py::test_numbers[Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('gelu'
test_contract.py::test_numbers[Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2
test_empirical_functions.py::test_second_and_third_derivatives[erf]
test_near_one.py::test_the_side_of_one_and_the_distance_from_it[tanh-1-1e-60-gap0-ordered]
test_criticality.py::test_lines_with_layer_norm_on_activations[gelu]
test_correlations.py::test_a_constant_that_a_norm_takes_away
test_figures.py::test_every_kind_of_line_is_drawn_where_the_contour_is[tanh-settings3-entries3]
test_figures.py::test_every_kind_of_line_is_drawn_where_the_contour_is[relu-settings2-entries2]
test_criticality.py::test_half_stable_coefficients_against_differences[mish]
test_criticality.py::test_half_stable_coefficients_against_differences[z*erf(z)]
test_criticality.py::test_laws_at_the_origin_against_iteration[arctan]
test_criticality.py::test_laws_at_the_origin_against_iteration[tanh(z) - tanh(2*z)/8]
test_equal_norms.py::test_gamma_of_relu_beyond_all_doubles[2.5]
test_equal_norms.py::test_gamma_of_relu_beyond_all_doubles[1.5]
test_contract.py::test_numbers[Residual(Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity
test_contract.py::test_numbers[Sequential((Nonlinearity('relu'), LayerNorm(), LayerNorm(), Dense(),)) input_jacobian]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[mish]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[softplus]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[softsign]
test_empirical_functions.py::test_values_and_derivatives[gelu]
test_empirical_functions.py::test_values_and_derivatives[erf_scaled]
test_empirical_functions.py::test_values_and_derivatives[selu]
test_latex.py::test_theories_are_printable[elu-two Dense]
test_latex.py::test_theories_are_printable[gelu_tanh-plain]
test_oracles.py::test_two_inputs_in_another_library[softsign-0.0001-1.0-0.3]
test_oracles.py::test_two_inputs_in_another_library[tanh-0.0001-0.0001--0.9]
test_criticality_ensembles.py::test_networks_at_the_critical_point[softsign]
test_modules.py::test_interpreted_and_compiled_are_the_same_bits[direct]
test_modules.py::test_interpreted_and_compiled_are_the_same_bits[closed]
test_neutrality.py::test_the_lines_of_tanh_leave_the_origin_as_cube_roots
test_neutrality.py::test_the_critical_line_at_small_biases[tanh]
test_empirical_pools.py::test_values_and_slopes[sqrt(z1**2 + z2**2 + z3**2 + z4**2)]
test_pools.py::test_maxima_of_one_input_against_a_grid[exp(-z**2)]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[gelu-1.41-1e-9]
test_empirical_scaleout.py::test_killed_and_interrupted_processes_leave_a_checkpoint
test_machines.py::test_blas_kernels_change_no_bit
test_empirical_ensemble.py::test_a_second_process_compiles_nothing_and_no_process_needs_to
test_empirical_correlators.py::test_tangent_correlators_of_linear_networks
test_ease.py::test_a_run_as_a_data_frame
test_bias_diagram.py::test_tables_of_a_function_that_jumps
test_propagate.py::test_whole_numbers_too_long_for_a_compiled_integer
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R15, S of E-4 D0*J0]
test_criticality.py::test_exponents_that_are_exact
test_equal_norms.py::test_through_two_dense_layers_and_twice_the_same_phi
test_figures.py::test_every_kind_of_line_is_drawn_where_the_contour_is[relu-settings0-entries0]
test_figures.py::test_no_global_state
test_empirical_differentials.py::test_every_tensor_is_tested_on_something
test_records.py::test_fixed_points_behind_an_inner_dense[two
test_bias.py::test_nothing_but_biases_is_ordered
test_empirical_scaleout.py::test_a_broken_pool_is_explained
test_empirical_ensemble.py::test_jacobian_from_the_input
test_expansions.py::test_critical_laws_at_zero[tanh(z) - tanh(2*z)/8-4/3-sqrt(2)/(8*sqrt(l))--1/2]
test_empirical_cuda.py::test_networks_of_the_simulator[simulated_runs]
test_propagate.py::test_a_node_that_overflowed_twice_is_finite
test_cli.py::test_examples_in_the_help_run[phase-diagram]
test_switch_points.py::test_jets_of_a_text[sigmoid(softplus(z))**2*cosh(z/2) + sech(z)*sinh(z)]
test_expansions.py::test_critical_laws_at_zero[softsign-1-pi/(8*l**2)--2]
test_fixed_points.py::test_basins_hold_the_orbits[1]
test_latex.py::test_latex_is_deterministic
test_cli.py::test_examples_in_the_help_run[activations]
test_propagate.py::test_final_equals_trace_and_early_stop_changes_nothing
test_certificates.py::test_pairs_are_excluded_where_they_are_not_and_nowhere_else
test_pairs_behind_norms.py::test_what_is_a_little_off_is_measured
test_cli.py::test_symbolic_verbs_load_nothing_heavy[activations]
test_run_error.py::test_beyond_a_followed_range_a_run_is_refused
test_records.py::test_tangents_of_two_inputs[gelu-act]
test_far_signs.py::test_signs_and_roots_against_quadrature
test_behind_norms.py::test_against_quadrature[softplus-leaky_relu]
test_near_one.py::test_the_reason_is_not_a_pole_where_there_is_none
test_figures.py::test_save[a.pdf-%PDF]
test_blocks.py::test_equal_inputs_stay_equal
test_empirical_correlators.py::test_vertex_of_linear_networks[mixed-8-<lambda>-explicit]
test_power_growth.py::test_stretched_exponential_along_power_growth[z + z*exp(-z**2)]
test_certificates.py::test_no_fixed_point_is_missed_and_none_invented[max(exp(-0.1234567*z**2), 0.3)-2-1e-3]
test_records.py::test_a_record_of_ones_own[(Nonlinearity('relu'), RMSNorm(), Dense())]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[silu]
test_criticality.py::test_everywhere_critical_exponent_and_gamma_form[gelu-2-0-1.0720315984]
test_power_growth.py::test_quotients_led_by_a_logarithm_are_read_or_refused_in_a_sentence
test_empirical_correlators.py::test_vertex_of_several_inputs
test_criticality.py::test_logarithmic_decay_of_hard_tanh
test_fixed_points.py::test_basins_hold_the_orbits[3]
test_blocks.py::test_layer_dependent_skip_strength
test_run_error.py::test_one_input_claims[tanh(30*(z-2))-dphi2]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[elu]
test_expansions.py::test_both_ends_for_every_registered_activation[gelu_tanh]
test_propagate.py::test_compiled_layers_equal_exact_iteration[softsign-True]
test_empirical_correlators.py::test_vertex_of_linear_networks[mixed-8-<lambda>-lazy]
test_empirical_correlators.py::test_random_tangents_measure_theta[norm in a skip]
test_cli.py::test_symbolic_verbs_load_nothing_heavy[table relu]
test_criticality.py::test_laws_at_the_origin_against_iteration[sin(z) + 2/sqrt(3)*(1 - cos(z))]
test_criticality.py::test_laws_at_the_origin_against_iteration[elu]
test_equal_norms.py::test_coordinates_are_the_same_state[{}-names0]
test_cli.py::test_symbolic_verbs_load_nothing_heavy[law tanh --residual]
test_tails.py::test_power_growth_of_a_whole_theory
test_latex.py::test_theories_are_printable[elu-act, mu]
test_finite_width_runs.py::test_means_at_finite_width
test_finite_width_runs.py::test_correlators_may_overflow_where_K_does_not
test_further_terms.py::test_a_coefficient_that_is_off_is_seen
test_normed_laws.py::test_laws_follow_the_flow
test_fisher.py::test_the_law_follows_the_flow
test_ease.py::test_sentences_name_the_variable_as_it_was_written
test_propagate.py::test_second_process_compiles_nothing
test_pair_laws.py::test_a_bounded_J_with_a_growing_distance_does_not_exist
test_empirical_scaleout.py::test_a_users_formula_travels_as_text
test_latex.py::test_long_maps_name_their_averages
test_figures.py::test_diagrams_without_lines_or_numbers
test_correlations.py::test_where_K_has_no_place
test_certificates.py::test_a_measured_list_of_points_makes_measured_laws
test_cli_critical.py::test_certified_numbers_show_thirteen_digits
test_cli.py::test_symbolic_verbs_load_nothing_heavy[derive tanh --residual]
test_empirical_scaleout.py::test_a_large_jacobian_is_streamed_as_a_logarithm
test_partial_jacobians.py::test_the_print_and_its_contrast_come_out_as_they_should[R27, Remark 4.2,
test_empirical_correlators.py::test_gradients_are_those_of_the_tangent_kernel
test_contract.py::test_numbers[Sequential((Nonlinearity(activation('relu')), LayerNorm(), LayerNorm(), Dense(),)) input
test_modules.py::test_interpreted_and_compiled_are_the_same_bits[pair]
test_finite_width_second.py::test_linear_and_relu_runs
test_gates.py::test_fixed_points_against_a_grid[silu-silu]
test_cli_critical.py::test_output_fits_80_columns[critical swish --mu mu]
test_cli_critical.py::test_output_fits_80_columns[phase-diagram gelu --sigma-w 1,2,40
test_cli.py::test_law_of_a_full_residual_network
test_records.py::test_planted_errors_in_tangents_of_two_inputs
test_records.py::test_schedules_against_networks[two]
test_uniform_weights.py::test_rates_of_networks_are_those_of_the_theory
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C4: tanh, 1/n^2
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C6: powers of l, Gaussian ReLU
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C1: log(l)/l
test_phase_orders.py::test_rows_are_the_derivations_at_numbers
test_neurons_at_rest.py::test_a_neuron_that_is_constant_over_the_batch_is_named[block1-place1
test_ball_evaluators.py::test_the_approach_to_a_critical_point_is_computed_when_it_is_asked_for
test_blocks.py::test_any_order_of_blocks_against_networks[skip without weights]
test_blocks.py::test_any_order_of_blocks_against_networks[norm before the skip]
test_fisher.py::test_a_group_left_out_and_a_wrong_exponent_fail[relu-beta0-size0-w of the inner
test_group_averages.py::test_what_is_not_known_is_said
test_empirical_differentials.py::test_planted_errors_in_derivatives_are_seen[<lambda>-broken1]
test_empirical_pools.py::test_derivatives_of_a_pool_that_jumps_are_refused
test_norms.py::test_a_nonlinearity_behind_a_norm_is_followed[relu tanh]
test_run_error.py::test_the_measured_rule_is_the_compiled_one
test_run_error.py::test_cells_are_cut_where_an_average_is_steep
test_run_error.py::test_two_input_branch_points
test_bias_and_trainability_figures.py::test_figure_31_grows_faster_below_the_line
test_several_inputs.py::test_bad_input_is_a_sentence[exp(z**2/8)-given22
test_partial_jacobians_numbers.py::test_the_engine_reproduces_the_value_and_a_planted_error_does_not[8 line of erf
test_growing_bias.py::test_a_residual_tanh_settles_for_every_start
test_switch_points.py::test_a_symbolic_threshold_is_carried
test_closing_laws.py::test_tanh_on_the_critical_line[0.1]
test_closing_laws.py::test_a_width_of_thirty_digits_is_critical_to_rounding
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C1: bounded
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[C5: one input
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[\\xa7 5.3, Gaussian: as l but U
test_uniform_weights.py::test_how_uniform_weights_are_asked_for
test_autoinit_figures.py::test_the_lines_of_figure_2_are_the_theory
test_neurons_at_rest.py::test_what_float64_cannot_average_behind_an_activation_says_what_to_do
test_neurons_at_rest.py::test_a_block_that_carries_nothing_on
test_empirical_correlators.py::test_random_tangents_measure_theta[pool]
test_records.py::test_schedules_against_networks[both]
test_blocks.py::test_any_order_of_blocks_against_networks[norm last]
test_blocks.py::test_input_jacobian_against_networks[{}]
test_certificates.py::test_one_change_of_sign_is_settled_by_the_proved_ends
test_records.py::test_a_record_of_ones_own[(RMSNorm(), Nonlinearity('tanh'), Dense())]
test_oracles.py::test_another_rule_agrees[tanh-1.0]
test_variance_variation_figures.py::test_laws_lie_on_recursions_in_figure_b3
test_blocks.py::test_correlation_maps_with_layer_norm_against_networks[{'norm': 'act'}]
test_records.py::test_records_against_networks[wide inside]
test_cli_critical.py::test_critical_latex[critical swish --mu mu --latex]
test_equal_norms.py::test_against_another_quadrature[gelu-0.3]
test_near_one.py::test_a_tie_at_an_inexact_fixed_point_is_proved[13/10]
test_near_one.py::test_a_constant_chi_is_the_number_that_it_is[abs(z)+z/2-1-2/sqrt(5)-0]
test_latex.py::test_theories_are_printable[tanh-residual]
test_fixed_points.py::test_the_ball_holds_a_root_of_an_independent_map[tanh]
test_blocks.py::test_correlation_maps_with_layer_norm_against_networks[{'norm': 'pre'}]
test_criticality.py::test_laws_at_the_origin_against_iteration[sin]
test_variance_variation.py::test_the_print_and_its_contrast_come_out_as_they_should[R27, Thm C.5 (1) p]
test_cli.py::test_symbolic_verbs_load_nothing_heavy[derive foo]
test_cli.py::test_correlators_of_order_1_by_n
test_correlator_laws.py::test_class_in_short
test_normed_laws.py::test_a_law_that_is_wrong_is_seen
test_further_terms.py::test_printing
test_cli_critical.py::test_output_fits_80_columns[phase-diagram erf
test_cli.py::test_examples_in_the_help_run[critical]
test_contract.py::test_numbers[Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)) input
test_contract.py::test_maps[Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu
test_bias.py::test_the_limit_is_known_where_its_law_is_not[1-0]
test_allowances.py::test_everything_else_is_measured_and_says_why[J is exactly 0]
test_empirical_differentials.py::test_planted_errors_in_derivatives_are_seen[<lambda>-broken0]
test_bias_diagram.py::test_functions_of_one_power
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[(4.18), orthogonal
test_orthogonal_weights.py::test_the_print_and_its_contrast_come_out_as_they_should[(4.17), one input
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    twins = tuple(f"tests/{line}" for line in TWINS.splitlines() if line)
    for item in items:
        if item.nodeid.startswith(twins):
            item.add_marker(pytest.mark.slow)
    chosen = config.getoption("--shard")
    if not chosen:
        return
    index, _, count = chosen.partition("/")
    shards = int(count)
    here = content() % shards if index == "auto" else int(index)
    if not 0 <= here < shards:
        raise pytest.UsageError(f"--shard {chosen}: the shards are 0 to {shards - 1}.")
    out = [i for i in items if i.get_closest_marker("slow") and shard_of(i.nodeid, shards) != here]
    config.hook.pytest_deselected(items=out)
    gone = set(out)
    items[:] = [i for i in items if i not in gone]


def pytest_configure(config):
    """An empty cache for each run, shared by its workers: numeric tests see the engine as it is now, not as it was."""
    if not hasattr(config, "workerinput"):
        config.own_cache = os.environ["MEANFIELD_CACHE"] = tempfile.mkdtemp(prefix="meanfield-tests-")
        if getattr(config.option, "numprocesses", None):
            warm()


WARM = """
import meanfield as mf

at = dict(sigma_w=1.2, sigma_b=0.1, width=8, depth=3, networks=4, threads=1)
for sampler in ("explicit", "lazy"):
    mf.measure("tanh", sampler=sampler, quantities=("K", "J", "Theta"), **at)
mf.measure("gelu", correlation=0.5, **at)
mf.measure(mf.derive("relu", norm="pre"), **at)
"""


def warm() -> None:
    """Compile the kernels of finite networks once, before workers start that would each compile them.

    They lie in Numba's cache then. In a process of its own: a package that is broken is for the tests to report.
    """
    subprocess.run([sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, check=False, timeout=120)


def pytest_unconfigure(config):
    if hasattr(config, "own_cache"):
        shutil.rmtree(config.own_cache, ignore_errors=True)


@pytest.fixture(autouse=True)
def _precision():
    before = mpmath.mp.dps
    yield
    mpmath.mp.dps = before
